"""Serves the counters of a mount to Prometheus, on this machine alone. Used by `daemon`.

The numbers are those of `.zarrfuse/status.json`. What is served: `docs/status.md`.
"""

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from zarrfuse.errors import MountError

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_ADDRESS = re.compile(r"(?:(?P<host>[^:\[\]]+|\[[0-9a-fA-F:]+\]):)?(?P<port>[0-9]{1,5})")
_LAST_PORT = 65535


def parse_address(text: str) -> tuple[str, int]:
    """(host, port) of HOST:PORT or PORT. Raises `MountError` for one that other machines can reach."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > _LAST_PORT:
        raise MountError(f"--metrics {text} is neither PORT nor HOST:PORT")
    host = (found["host"] or "127.0.0.1").strip("[]")
    if host != "localhost":
        try:
            is_local = ipaddress.ip_address(host).is_loopback
        except ValueError:
            is_local = False
        if not is_local:
            raise MountError(
                f"--metrics {text}: only addresses of this machine, such as 127.0.0.1, are served: there "
                "is no password"
            )
    return host, int(found["port"])


def serve_metrics(address: str, status: Callable[[], dict[str, Any]]) -> str:
    """Serve in a thread; returns the URL. Raises `MountError` with the reason.

    `status`: returns the content of `status.json`, in any thread.
    """
    host, port = parse_address(address)
    try:
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415
    except ImportError:
        raise MountError(
            "--metrics needs prometheus-client: pip install 'zarrfuse[metrics]'"
        ) from None
    registry = CollectorRegistry()
    registry.register(Counters(status))
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise MountError(f"--metrics {address} cannot be served: {error.strerror}") from None
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{server.server_port}/metrics"


class Counters:
    """Makes metrics of `status.json`."""

    def __init__(self, status: Callable[[], dict[str, Any]]) -> None:
        self._status = status

    def collect(self) -> "Iterator[Metric]":
        """See prometheus_client."""
        from prometheus_client.core import (  # noqa: PLC0415  # as above
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
            InfoMetricFamily,
        )

        told = self._status()
        about = {name: str(told[name]) for name in ("version", "source", "mountpoint", "view")}
        yield InfoMetricFamily("zarrfuse_mount", "What is mounted", about)
        for name, title, member in (
            ("uptime_seconds", "Time since the mount", "uptime_s"),
            ("open_files", "Open files", "open_files"),
            ("open_folders", "Open folders", "open_folders"),
            ("kernel_lookups", "Names that the kernel knows", "kernel_lookups"),
        ):
            yield GaugeMetricFamily(f"zarrfuse_{name}", title, told[member])
        for name, title, label, counts in (
            ("requests", "Requests of the kernel", "kind", told["requests_by_kind"]),
            ("errors", "Requests that failed, as faults", "errno", told["errors"]),
            ("refusals", "Requests that were refused", "errno", told["refusals"]),
            ("bytes", "Bytes of files", "direction", _directions(told)),
            ("server", "Requests to the server of a URL", "kind", told.get("server", {})),
        ):
            family = CounterMetricFamily(f"zarrfuse_{name}", title, labels=[label])
            for value, count in counts.items():
                family.add_metric([value], count)
            yield family
        cache = told.get("cache", {})
        for member in ("hits", "misses"):
            if member in cache:
                title = f"{member.capitalize()} of the cache in memory"
                yield CounterMetricFamily(f"zarrfuse_cache_{member}", title, cache[member])
        calls = told["store_calls"]
        buckets = [(str(bound), count) for bound, count in calls["buckets"]]
        yield HistogramMetricFamily(
            "zarrfuse_store_call_seconds",
            "Calls of the store that needed a thread",
            buckets=[*buckets, ("+Inf", calls["calls"])],
            sum_value=calls["seconds"],
        )


def _directions(told: dict[str, Any]) -> dict[str, int]:
    found = {"read": told["bytes_read"]}
    return found | ({"written": told["bytes_written"]} if "bytes_written" in told else {})

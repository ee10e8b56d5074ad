"""A daemon that gets no more memory: requests that need some are ENOMEM, and the mount lives."""

import errno
import resource
import threading
from collections import Counter
from pathlib import Path

from builders.folders import write_files
from builders.mounts import serving
from daemons import errno_when, fake

CLIENTS = 100


def test_requests_that_cannot_have_a_thread_are_enomem(tmp_path: Path):
    source = tmp_path / "source"
    write_files(source, {f"folder/{n}": b"data" for n in range(CLIENTS)})
    command = fake(store="slow", delays={"open": 0.1})
    with serving(tmp_path, source, command=command) as daemon:
        pid = daemon.process.pid
        size = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        limit = size + (4 << 20)  # less than the stack of a thread, but enough for small objects
        unlimited = resource.prlimit(pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        told: Counter[int] = Counter()

        def read(number: int) -> None:
            told[errno_when((daemon.mountpoint / f"folder/{number}").read_bytes)] += 1

        clients = [threading.Thread(target=read, args=(n,)) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert set(told) <= {0, errno.ENOMEM}
        assert told[errno.ENOMEM]
        resource.prlimit(pid, resource.RLIMIT_AS, unlimited)
        assert (daemon.mountpoint / "folder/1").read_bytes() == b"data"
        assert set(daemon.status()["errors"]) == {"ENOMEM"}
        assert "Traceback" not in daemon.text()

"""What is told of the exceptions of libraries."""

import pytest

from zarrfuse.stores.zarr_store.failures import translated


@pytest.mark.parametrize(
    "said",
    [
        "404, message='Not', url='https://user:pass@host/a?sig=secret'",
        "cannot connect to https://user:pass@host/a?sig=secret",
        'HTTPStore("https://pass@host/a?x=1&sig=secret")',
        "<https://pass:@host?sig=secret>",
    ],
)
def test_urls_in_messages_lose_what_may_be_secret(said) -> None:
    told = str(translated(RuntimeError(said), "memory://", "key"))
    assert "https://host" in told
    assert "secret" not in told and "pass" not in told

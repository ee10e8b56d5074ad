"""What becomes of requests to a bucket when credentials expire, and which objects are the same."""

import asyncio
from datetime import UTC, datetime

import obstore
import pytest
from obstore.exceptions import PermissionDeniedError

from zarrfuse.config import RemoteConfig
from zarrfuse.errors import Denied
from zarrfuse.stores.object.requests import BucketRequests, found
from zarrfuse.stores.object.url import parse
from zarrfuse.stores.remote.requests import TryAgain

META = {"size": 3, "last_modified": datetime(2026, 1, 1, tzinfo=UTC), "e_tag": '"1"'}


@pytest.fixture
def requests() -> BucketRequests:
    settings = (("skip_signature", "true"), ("endpoint", "http://127.0.0.1:9"), ("region", "r"))
    return BucketRequests(parse("s3://bucket"), RemoteConfig(settings=settings, timeout_s=1.0))


def test_all_requests_are_repeated_that_were_under_way_when_credentials_expired(
    requests, monkeypatch
) -> None:
    expired = requests._client
    are_under_way = asyncio.Barrier(5)

    async def head(client, path):
        if client is not expired:
            return META
        await are_under_way.wait()
        raise PermissionDeniedError("ExpiredToken")

    async def ask() -> None:
        refused = await asyncio.gather(
            *(requests.find("key") for _ in range(5)), return_exceptions=True
        )
        assert [type(error) for error in refused] == [TryAgain] * 5
        assert (await requests.find("key")).size == 3

    monkeypatch.setattr(obstore, "head_async", head)
    asyncio.run(ask())


def test_credentials_that_are_refused_when_they_are_new_are_refused(requests, monkeypatch) -> None:
    async def head(client, path):
        raise PermissionDeniedError("ExpiredToken")

    async def ask() -> None:
        with pytest.raises(TryAgain):
            await requests.find("key")
        with pytest.raises(Denied):
            await requests.find("key")

    monkeypatch.setattr(obstore, "head_async", head)
    asyncio.run(ask())


def test_an_etag_that_a_proxy_weakened_is_the_same_one() -> None:
    assert found(META) == found({**META, "e_tag": 'W/"1"'}) == found({**META, "e_tag": "1"})

"""URLs: what is asked for, and what may be printed."""

import pytest

from zarrfuse.errors import NotFound, UnusableSource
from zarrfuse.stores.http.url import HttpUrl


@pytest.mark.parametrize(
    ("source", "key", "address"),
    [
        ("https://h/a", "b/c", "https://h/a/b/c"),
        ("https://h/a/", "b", "https://h/a/b"),
        ("http://h", "b", "http://h/b"),
        ("http://h:81/", "b", "http://h:81/b"),
        ("HTTPS://H.org/A", "b", "https://h.org/A/b"),
        ("https://h/a%20b c/ä", "d", "https://h/a%20b%20c/%C3%A4/d"),
        ("https://h/a", "x#y?z%20 ä", "https://h/a/x%23y%3Fz%2520%20%C3%A4"),
        ("https://h/a", "\udcff", "https://h/a/%FF"),
        ("https://h/a?sig=x%2Fy&b=c+d", "e", "https://h/a/e?sig=x%2Fy&b=c+d"),
        ("https://u:p@h/a", "e", "https://h/a/e"),
        ("https://[::1]:8080/a", "e", "https://[::1]:8080/a/e"),
        ("https://bücher.example/a", "e", "https://xn--bcher-kva.example/a/e"),
        ("https://h/100%", "e", "https://h/100%25/e"),
    ],
)
def test_the_address_of_a_key(source, key, address) -> None:
    assert HttpUrl.parse(source).of(key) == address


def test_the_address_of_a_folder_ends_in_a_slash_before_the_query() -> None:
    url = HttpUrl.parse("https://h/a?sig=x")
    assert url.of_folder("b c") == "https://h/a/b%20c/?sig=x"
    assert url.of_folder("", "list-type=2") == "https://h/a/?list-type=2&sig=x"


@pytest.mark.parametrize("key", ["", "..", "a/../b", ".", "a//b", "/a", "a/", "a\0"])
def test_a_key_that_leads_elsewhere_is_not_found(key) -> None:
    with pytest.raises(NotFound):
        HttpUrl.parse("https://h/a").of(key)


@pytest.mark.parametrize(
    "source",
    [
        *(
            "ftp://h/a",
            "https://",
            "https:///a",
            "https://h/a#b",
            "https://h/a/../b",
            "https://h//a",
        ),
        *(
            "https://h:port/a",
            "https://h:99999/a",
            "https://[::1/a",
            "https://h/%2e%2e/a",
            "https://a b/",
        ),
    ],
)
def test_a_wrong_url_is_refused(source) -> None:
    with pytest.raises(UnusableSource):
        HttpUrl.parse(source)


@pytest.mark.parametrize(
    "source",
    [
        *("https://user:secret@h/a?secret", "ftp://user:secret@h/a?secret", "https://h/a?secret#b"),
        *("https://user:secret@h:port/a?secret", "https://user:secret@h/../?secret"),
        "https://user:secret@[::1/a?secret",
    ],
)
def test_no_text_of_a_url_has_its_secrets(source) -> None:
    try:
        url = HttpUrl.parse(source)
    except UnusableSource as error:
        assert "secret" not in str(error)
    else:
        assert "secret" not in str(url) + repr(url) + url.title("key")
        assert url.authorization == "Basic dXNlcjpzZWNyZXQ="


def test_a_url_is_split_into_folder_and_name() -> None:
    url, name = HttpUrl.parse("https://h/a/b%20c.zip?sig=x").split()
    assert (str(url), name) == ("https://h/a", "b c.zip")
    assert url.of(name) == "https://h/a/b%20c.zip?sig=x"

"""The words of `-o`: options of the command, of the kernel, of fstab, of a bucket, and of nobody."""

import pytest
import typer

from zarrfuse.cli.mount_words import escaped, expanded, is_known, shared_out, words_of

FLAGS = {"view": False, "cache_ttl": False, "read_write": True, "header": False, "config": False}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("ro,,view=images,", ["ro", "view=images"]),
        (r"header=A: b\, c,ro", ["header=A: b, c", "ro"]),
        (r"fsname=a\\b", [r"fsname=a\b"]),
        ("comment=x=y", ["comment=x=y"]),
        ("fsname=a\\", ["fsname=a\\"]),
    ],
)
def test_commas_separate_words(text: str, words: list[str]) -> None:
    assert list(words_of(text)) == words
    assert list(words_of(",".join(map(escaped, words)))) == words


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["s", "m", "-o", "view=images,ro"], ["s", "m", "--view=images", "-o", "ro"]),
        (["-oread_write,cache-ttl=inf", "s"], ["--read-write", "--cache-ttl=inf", "s"]),
        (["-o", r"header=A: b\, c"], ["--header=A: b, c"]),
        (["-o", "cache_ttl=a=b"], ["--cache-ttl=a=b"]),
        (["-o", "noauto,nofail,_netdev,user,rw,defaults,x-systemd.automount,comment=a b"], []),
        (["-o", "user=bob,relatime,diratime,symfollow"], []),  # what the kernel does anyway
        (["-o", r"fsname=a\,b"], ["-o", r"fsname=a\,b"]),
        (["--", "-o", "view=x"], ["--", "-o", "view=x"]),
        (["s", "-o"], ["s"]),
    ],
)
def test_options_of_the_command_become_arguments(arguments: list[str], found: list[str]) -> None:
    assert expanded(arguments, FLAGS) == found


@pytest.mark.parametrize(
    ("word", "said"),
    [("view", "view needs a value"), ("read_write=yes", "read_write takes no value")],
)
def test_a_value_is_given_where_one_is_taken(word: str, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        expanded(["-o", word], FLAGS)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("veiw=images", "there is no option veiw; did you mean view"),
        ("nosiud", "there is no option nosiud; did you mean nosuid"),
        ("noatuo", "did you mean noauto"),
        ("frobnicate", "there is no option frobnicate$"),
        ("max_read=4096", "max_read cannot be given: zarrfuse sets it itself"),
        ("kernel_cache", "cache_ttl=SECONDS says how long"),
    ],
)
@pytest.mark.parametrize("is_url", [True, False])
def test_a_word_of_nobody_is_refused_with_the_nearest(word: str, said: str, is_url: bool) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        shared_out([word], FLAGS, is_url=is_url)
    assert not is_known(word, FLAGS)


def test_settings_are_of_urls_alone() -> None:
    words = ["aws_access_key_id=a=b", "ro", "fsname=x"]
    assert shared_out(words, FLAGS, is_url=True) == (("ro", "fsname=x"), (words[0],))
    with pytest.raises(typer.BadParameter, match="there is no option aws_access_key_id"):
        shared_out(words, FLAGS, is_url=False)

"""Credentials of `~/.aws`, which boto3 reads: profiles, roles and single sign-on.

Used by `requests`. `obstore` itself knows the environment and the services of virtual machines.
"""

import os
from collections.abc import Mapping

from zarrfuse.errors import UnusableSource
from zarrfuse.stores.object.url import ObjectUrl

_GIVEN = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
)
_UNSIGNED = "AWS_SKIP_SIGNATURE"
_FILES = (
    ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials"),
    ("AWS_CONFIG_FILE", "~/.aws/config"),
)


def credentials_of(url: ObjectUrl, profile: str | None, settings: Mapping[str, str]) -> object:
    """What `obstore` calls for credentials, or None if it finds them itself.

    `profile`: as `--profile` has it. Without one, `~/.aws` is read if the environment has no credentials.
    Raises `UnusableSource` if boto3 is missing, or the profile has no credentials.
    """
    if url.scheme != "s3":
        if profile is not None:
            raise UnusableSource(f"the source {url}: profiles are of s3:// only")
        return None
    profile = profile or os.environ.get("AWS_PROFILE")
    if profile is None and not _is_for_files(settings):
        return None
    try:
        import boto3  # noqa: PLC0415  # 0.2 s
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415
        from obstore.auth.boto3 import Boto3CredentialProvider  # noqa: PLC0415
    except ImportError:
        if profile is None:
            return None  # as without ~/.aws: if credentials are missing, the first request says so
        raise UnusableSource(
            f"the source {url}: --profile needs the package boto3: pip install 'zarrfuse[aws]'"
        ) from None
    try:
        return Boto3CredentialProvider(boto3.Session(profile_name=profile))
    except (BotoCoreError, ValueError) as error:
        if profile is None:
            return None
        raise UnusableSource(
            f"the source {url}: the profile {profile} cannot be used: {error}"
        ) from None


def _is_for_files(settings: Mapping[str, str]) -> bool:
    """Whether neither settings nor environment have credentials, and ~/.aws may."""
    if any("access_key" in name or name.endswith("skip_signature") for name in settings):
        return False
    if any(os.environ.get(name) for name in _GIVEN):
        return False
    if os.environ.get(_UNSIGNED, "").lower() in ("true", "1"):
        return False
    return any(
        os.path.exists(os.path.expanduser(os.environ.get(variable, path)))
        for variable, path in _FILES
    )

"""The paths that commands take. Used by the commands: owns that a path is not empty."""

from typing import Annotated, Any

import typer


def path_argument(name: str, help_: str) -> Any:
    """An argument that is a path, for an annotation."""
    return typer.Argument(metavar=name, help=help_, callback=_not_empty)


def _not_empty(path: str | None) -> str | None:
    """Refuse an empty path: it is an unset variable, not the current folder. None: not given."""
    if path == "":
        raise typer.BadParameter("must not be empty")
    return path


SOURCE = path_argument(
    "SOURCE",
    "A folder, a .zip or .ozx file, or a URL: https://HOST/PATH; s3://BUCKET/PREFIX, also gs:// and az://;"
    " icechunk+file://PATH or icechunk+s3://BUCKET/PREFIX.",
)
Source = Annotated[str, SOURCE]

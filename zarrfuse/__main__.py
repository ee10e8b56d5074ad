"""The `zarrfuse` command, also as `python -m zarrfuse`."""

import sys


def main() -> None:
    """Run the command. Without typer there is none, not even `doctor`, which names what else is missing."""
    try:
        import typer  # noqa: F401, PLC0415
    except ImportError as error:
        sys.exit(f"zarrfuse: {error}: pip install --force-reinstall zarrfuse")
    from zarrfuse.cli.app import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()

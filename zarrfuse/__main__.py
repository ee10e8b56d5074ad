"""`python -m zarrfuse` is the `zarrfuse` command."""

from zarrfuse.cli.app import main

if __name__ == "__main__":
    main()

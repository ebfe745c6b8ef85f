"""`python -m nlink` is the `nlink` command."""

from nlink.cli import main

main()

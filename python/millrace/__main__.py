# SPDX-License-Identifier: Apache-2.0
"""The command: `millrace` where the package was installed by pip, and `python -m millrace`."""
import os
import sys


def command_path() -> str:
    """Of the command that belongs to this package."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "millrace")
    built = os.path.join(os.path.dirname(os.environ.get("MILLRACE_LIB", "")), "millrace")
    for path in (beside, built):  # the second: of a build tree
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise FileNotFoundError(f"there is no command in {beside}: this package was built without it")


def main() -> None:
    """Becomes the command, with the same arguments, terminal and exit code."""
    os.execv(command_path(), ["millrace", *sys.argv[1:]])


if __name__ == "__main__":
    main()

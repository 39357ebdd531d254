# SPDX-License-Identifier: Apache-2.0
"""`python -m dualmask`, where the command itself is not on the path."""

from dualmask.cli import main

if __name__ == "__main__":
    main()

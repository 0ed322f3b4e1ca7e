"""``python -m tidelog``: the command line, also where no scripts are installed."""

from tidelog.cli import main

if __name__ == "__main__":
    main()

"""`python -m lingua_scheduler` is `lingua`."""

from lingua_scheduler.cli.main import main

if __name__ == "__main__":
    main()

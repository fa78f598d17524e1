"""The front end in a real browser against the real stack; machines are the fake driver's processes and folders."""

"""Looking at a disk that no body runs on: list, read and compare, without a wake and without a restore.

hostd's handlers call it (`routes.py`); it calls qemu-img for where a chain's bytes lie, and one short-lived process
without rights (`inside/`) for what they mean, because what they mean was written by a guest.

    routes ──▶ subjects ──▶ which folder, and that nobody writes to it
       ├─────▶ mapping ───▶ qemu-img map: (start, length, file, offset) of every piece of the disk
       └─────▶ reader ────▶ python inside/ (fds only, no user, no network, no files) ──▶ libext2fs
"""

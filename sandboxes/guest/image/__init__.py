"""Builds the guest image: kernel, initramfs, root disk and the read-only tools disk. Called by hostd and `berth up`.

    recipe ─▶ system (mmdebstrap: one tar, two packages) ─┬─▶ rootfs ─▶ root.img          root hash
                                                          └─▶ boot + tools ─▶ kernel,     boot hash
                                                              initramfs, tools.img

Every part lies in a folder named by the hash of its recipe, appears by a rename, and is never written again. The agent
is part of the tools disk's recipe only, so a changed agent rebuilds in seconds and leaves root disks alone.
"""

"""The program that reads a guest's disk. A process of its own: it is given descriptors, gives up every right, and only
then looks at the first byte. Stdlib and libext2fs; imports nothing of Berth but its own modules.
"""

"""The benchmark: Toolcrib, its peers, and bare implementations as the limit of what is possible.

All clients call one fast server; all servers receive one cheap load.

Start it with `scripts/bench`.
"""

"""The benchmark: ours, the peers' and the bare ways. Clients meet one fast server, servers one cheap load.

Start it with `scripts/bench`.
"""

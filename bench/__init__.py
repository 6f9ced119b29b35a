"""The benchmark: ours, the peers' clients and the bare ways against one fast server. Start it with `scripts/bench`."""

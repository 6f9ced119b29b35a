"""The benchmark: ours, the peers' clients and the raw pipe against one fast child. Start it with `scripts/bench`."""

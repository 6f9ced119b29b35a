"""One server offered to others as if it were here, whatever protocol revision either side speaks."""

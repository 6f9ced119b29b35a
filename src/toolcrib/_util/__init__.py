"""Small mechanisms that several packages share. They import no other module of Toolcrib than `errors`."""

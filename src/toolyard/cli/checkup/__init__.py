"""What `toolyard doctor` looks at, a room for each part of a server.

`findings` is what comes out; `walk` goes through one server: its `entry` in the settings (and what is `secret` in it),
its `program` and the `packages` behind it, or its `address`; how it `starts`; what it `offers`.
"""

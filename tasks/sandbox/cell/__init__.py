"""What runs inside the sandbox: the server that forks, the candidate, the examiner. Standard library only.

`tasks.sandbox` binds this folder read-only into the sandbox, where it is the package `cell`; nothing outside it is
imported. `plain` is used on both sides.
"""

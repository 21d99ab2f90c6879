"""Which users other than the process may use a file with a secret, judged by its mode and its owner."""

import stat


def is_exposed(mode: int, owner_uid: int, process_uid: int) -> bool:
    """Whether a user who is neither the owner nor the process can read or write it.

    The group may read a file that belongs to root if the process runs as another user: that is how Kubernetes mounts a
    secret (root, the group of the pod, 0440), and the process could not read it otherwise. A group that may write never
    counts as private, and so does no group of a file of the process's own: mode 600 is enough there.
    """
    is_lent_by_root = owner_uid == 0 != process_uid
    others = stat.S_IRWXO | stat.S_IWGRP | (0 if is_lent_by_root else stat.S_IRGRP | stat.S_IXGRP)
    return bool(mode & others)

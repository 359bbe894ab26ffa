# Stands in for Ceph's library of this name, as far as connection.py uses it. The environment says what becomes of a connection.
import os
import time

how = os.environ.get("STAND_IN_CONNECT", "")
if how == "absent":
    raise ImportError("no module named rados")


class Error(Exception):
    def __init__(self, message, errno=None):
        super().__init__(message)
        self.errno = errno


class Rados:
    DEFAULT_CONF_FILES = -1

    def __init__(self, *, name, conffile):
        assert (name, conffile) == ("client.admin", Rados.DEFAULT_CONF_FILES), (name, conffile)

    def connect(self, timeout):
        assert timeout >= 1, timeout
        if how == "hangs":
            time.sleep(120)
        elif how == "unknown":
            raise Error("error calling connect")
        elif how:
            raise Error("error connecting to the cluster", errno=int(how))

# Asks a daemon of Ceph over its socket: usage: SOCKET QUESTION [STATE...]. The answer begins with its length.
import json
import socket
import struct
import sys

s = socket.socket(socket.AF_UNIX)
s.settimeout(10)
s.connect(sys.argv[1])
s.sendall(json.dumps({"prefix": sys.argv[2], "format": "json"}).encode() + b"\0")


def take(n):
    b = b""
    while len(b) < n:
        more = s.recv(n - len(b))
        if not more:
            sys.exit("the answer is cut off")
        b += more
    return b


answer = json.loads(take(struct.unpack(">I", take(4))[0]))
if len(sys.argv) > 3 and answer.get("state") not in sys.argv[3:]:
    sys.exit("it is " + str(answer.get("state")))

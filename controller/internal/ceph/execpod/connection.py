# Runs commands of Ceph for as long as its input goes on, over one connection to the monitors. It does what the program ceph does for each of them, with
# that program's own library, and answers in JSON. A line that it reads is a command, a line that it writes the answer. Its arguments are the seconds in
# which it has to be connected, and those that it waits for the next command.
#
# Whatever takes too long ends the process, and nothing else does: a command that went on after its deadline would be performed when nobody reckons with
# it any more. The kernel sees to that, by the alarm.
import base64
import errno
import json
import os
import signal
import sys

answers = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # What a library prints is no answer.
connecting, idle = int(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGALRM, signal.SIG_DFL)


def tell(answer):
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


def end(answer):
    tell(answer)
    os._exit(0)


signal.alarm(connecting + 1)
try:
    import ceph_argparse
    import rados
except ImportError:
    end({"failed": "no library of Ceph for Python", "errno": errno.ENOENT})
cluster = rados.Rados(name="client.admin", conffile=rados.Rados.DEFAULT_CONF_FILES)
try:
    cluster.connect(timeout=connecting)
except rados.Error as e:
    end({"failed": "connect", "errno": abs(e.errno or errno.EIO)})


def signatures():
    code, out, _ = ceph_argparse.json_command(cluster, target=("mon", ""), prefix="get_command_descriptions")
    if code != 0:
        end({"failed": "get_command_descriptions", "errno": abs(code)})
    return ceph_argparse.parse_json_funcsigs(out.decode(), "cli")


def parsed(args):
    try:
        return ceph_argparse.validate_command(known, args)
    except ceph_argparse.ArgumentError:
        return None


def perform(args, given):
    global known
    command = parsed(args)
    if not command:
        # A manager that became active since then brings commands of its own.
        known = signatures()
        command = parsed(args)
    if not command:
        return errno.EINVAL, b"", "invalid command"
    command["format"] = "json"
    code, out, said = ceph_argparse.json_command(cluster, argdict=command, inbuf=given)
    return abs(code) if code < 0 else 0, out, said


known = signatures()
tell({"ready": True})
while True:
    signal.alarm(idle)
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n") or not line.strip():
        os._exit(0)  # Half a command is none, and without one nothing comes any more.
    asked = json.loads(line)
    signal.alarm(asked["seconds"])
    code, out, said = perform(asked["args"], base64.b64decode(asked.get("input", "")))
    if code != 0:
        said = "Error %s: %s" % (errno.errorcode.get(code, "Unknown"), said)
    tell({"id": asked["id"], "code": code, "out": base64.b64encode(out).decode(), "said": said})

# Stands in for Ceph's library of this name, as far as connection.py uses it. A command says itself what becomes of it:
#
#   say CODE OUT SAID    ends with a code, as monitors give it, and prints something
#   bytes                prints bytes that are no text
#   noise                has the library print something of its own
#   late                 is known from the second time on that the monitors are asked which commands there are
#   hang SECONDS         takes long
#   given                prints what it reads
#   invalid              has an argument that is not valid
#
# All others are unknown. What was performed is written into a file, at its end. The environment says whether the monitors tell which commands there are,
# and how long they take to tell it once more.
import json
import os
import time

asked = 0


class ArgumentError(Exception):
    pass


def json_command(cluster, target=("mon", ""), prefix=None, argdict=None, inbuf=b"", timeout=0, verbose=False):
    global asked
    if prefix is not None:
        assert (target, prefix, argdict) == (("mon", ""), "get_command_descriptions", None), (target, prefix, argdict)
        asked += 1
        if asked > 1:
            time.sleep(float(os.environ.get("STAND_IN_DESCRIBES", "0")))
        return int(os.environ.get("STAND_IN_DESCRIBED", "0")), json.dumps({"asked": asked}).encode(), ""
    words = argdict["words"]
    assert argdict["format"] == "json" and (inbuf == b"" or words[0] == "given") and timeout == 0, (argdict, inbuf, timeout)
    result = 0, b"{}", ""
    if words[0] == "say":
        result = int(words[1]), words[2].encode(), words[3]
    elif words[0] == "bytes":
        result = 0, bytes(range(256)), ""
    elif words[0] == "given":
        result = 0, inbuf, ""
    elif words[0] == "noise":
        print("a library prints this")
    elif words[0] == "hang":
        time.sleep(float(words[1]))
    with open(os.environ["STAND_IN_PERFORMED"], "a") as performed:
        performed.write(" ".join(words) + "\n")
    return result


def parse_json_funcsigs(descriptions, consumer):
    assert consumer == "cli", consumer
    return json.loads(descriptions)


def validate_command(known, args):
    if args[0] == "invalid":
        raise ArgumentError("an argument is not valid")
    if args[0] in ("say", "bytes", "given", "noise", "hang") or args[0] == "late" and known["asked"] > 1:
        return {"prefix": args[0], "words": args}
    return {}

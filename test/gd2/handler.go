package gd2

import (
	"net/http"
	"strings"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/option"
	"quarry.storage/quarry/test/gd2/volume"
)

// handlers are by method and path of the server's list. What is not here is not served.
var handlers map[string]handler

func init() { //nolint:gochecknoinits // The list of endpoints is one of them.
	handlers = map[string]handler{
		"GET /ping":             func(*cluster.Call, input) answer { return empty(http.StatusOK) },
		"GET /version":          version,
		"GET /endpoints":        func(*cluster.Call, input) answer { return ok(http.StatusOK, endpoints) },
		"GET /statedump":        statedump,
		"GET /events":           func(c *cluster.Call, _ input) answer { return list(c.Events()) },
		"GET /peers":            func(c *cluster.Call, in input) answer { return list(c.Peers(in.query("key"), in.query("value"))) },
		"POST /peers":           addPeer,
		"GET /cluster/options":  clusterOptions,
		"POST /cluster/options": setClusterOptions,

		"GET /peers/{peerid}":  func(c *cluster.Call, in input) answer { return list(c.Peer(in.vars["peerid"])) },
		"POST /peers/{peerid}": editPeer,
		"DELETE /peers/{peerid}": func(c *cluster.Call, in input) answer {
			return done(http.StatusNoContent, c.RemovePeer(in.vars["peerid"]))
		},

		"GET /devices":                       func(c *cluster.Call, _ input) answer { return list(c.Devices("")) },
		"GET /devices/{peerid}":              func(c *cluster.Call, in input) answer { return list(c.Devices(in.vars["peerid"])) },
		"POST /devices/{peerid}":             addDevice,
		"GET /devices/{peerid}/{device:.*}":  device,
		"POST /devices/{peerid}/{device:.*}": editDevice,
	}
	for k, h := range volumeHandlers {
		handlers[k] = h
	}
}

var volumeHandlers = map[string]handler{
	"GET /volumes": func(c *cluster.Call, in input) answer {
		return ok(http.StatusOK, volume.List(c, in.query("key"), in.query("value")))
	},
	"POST /volumes":              createVolume,
	"GET /volumes/options-group": optionGroups,
	"GET /volumes/{volname}":     func(c *cluster.Call, in input) answer { return list(volume.Get(c, in.volume())) },
	"DELETE /volumes/{volname}": func(c *cluster.Call, in input) answer {
		return done(http.StatusNoContent, volume.Delete(c, in.volume()))
	},
	"GET /volumes/{volname}/bricks": func(c *cluster.Call, in input) answer { return list(volume.Bricks(c, in.volume())) },
	"GET /volumes/{volname}/status": func(c *cluster.Call, in input) answer { return list(volume.Look(c, in.volume())) },
	"POST /volumes/{volname}/start": startVolume,
	"POST /volumes/{volname}/stop":  func(c *cluster.Call, in input) answer { return list(volume.Stop(c, in.volume())) },
	"POST /volumes/{volname}/edit":  editVolume,

	"POST /volumes/{volname}/expand":       change(volume.Expand),
	"POST /volumes/{volname}/replacebrick": change(volume.Replace),

	"GET /volumes/{volname}/options":              func(c *cluster.Call, in input) answer { return list(volume.Options(c, in.volume())) },
	"GET /volumes/{volname}/options/{optname:.*}": func(c *cluster.Call, in input) answer { return list(volume.Option(c, in.volume(), in.vars["optname"])) },
	"POST /volumes/{volname}/options":             change(volume.SetOptions),
	"DELETE /volumes/{volname}/options":           change(volume.Reset),

	"GET /volumes/{volname}/heal-info":        func(c *cluster.Call, in input) answer { return list(volume.HealInfo(c, in.volume(), "")) },
	"GET /volumes/{volname}/{opts}/heal-info": func(c *cluster.Call, in input) answer { return list(volume.HealInfo(c, in.volume(), in.vars["opts"])) },
	"POST /volumes/{volname}/heal": func(c *cluster.Call, in input) answer {
		return done(http.StatusOK, volume.Heal(c, in.volume(), in.query("type")))
	},

	"GET /snapshots":  func(c *cluster.Call, in input) answer { return list(volume.Snapshots(c, in.query("volume"))) },
	"POST /snapshots": snap,
	"DELETE /snapshots/{snapname}": func(c *cluster.Call, in input) answer {
		return done(http.StatusNoContent, volume.Unsnap(c, in.vars["snapname"]))
	},
}

func (in input) query(name string) string { return in.URL.Query().Get(name) }

func (in input) volume() string { return in.vars["volname"] }

// list answers 200 with a body.
func list[T any](body T, f *cluster.Failure) answer {
	if f != nil {
		return failed(f)
	}
	return ok(http.StatusOK, body)
}

// done answers with a status alone.
func done(status int, f *cluster.Failure) answer {
	if f != nil {
		return failed(f)
	}
	return empty(status)
}

// made answers 201 with where it is.
func made(in input, id string, body any) answer {
	a := ok(http.StatusCreated, body)
	a.location = in.URL.String() + "/" + id
	return a
}

// change is a handler that reads a request and answers with what became of the volume.
func change[R, T any](do func(*cluster.Call, string, R) (T, *cluster.Failure)) handler {
	return func(c *cluster.Call, in input) answer {
		var r R
		if f := in.parse(&r); f != nil {
			return failed(f)
		}
		return list(do(c, in.volume(), r))
	}
}

func version(*cluster.Call, input) answer {
	return ok(http.StatusOK, map[string]any{"glusterd-version": Version, "api-version": 1})
}

// Version is the one of the servers that were recorded.
const Version = "v6.0-dev.152.git54ce5f6f"

func optionGroups(c *cluster.Call, _ input) answer {
	if f := c.Read(); f != nil {
		return failed(f)
	}
	return ok(http.StatusOK, option.Groups())
}

func addPeer(c *cluster.Call, in input) answer {
	var r cluster.PeerRequest
	if f := in.parse(&r); f != nil {
		return failed(f)
	}
	p, f := c.AddPeer(r)
	if f != nil {
		return failed(f)
	}
	return made(in, p.ID, p)
}

func editPeer(c *cluster.Call, in input) answer {
	var r cluster.PeerRequest
	if f := in.parse(&r); f != nil {
		return failed(f)
	}
	return list(c.EditPeer(in.vars["peerid"], r))
}

func addDevice(c *cluster.Call, in input) answer {
	if f := validPeer(in); f != nil {
		return failed(f)
	}
	var r cluster.DeviceRequest
	if f := in.parse(&r); f != nil {
		return failed(f)
	}
	d, f := c.AddDevice(in.vars["peerid"], r)
	if f != nil {
		return failed(f)
	}
	return made(in, strings.TrimLeft(d.Device, "/"), d)
}

func device(c *cluster.Call, in input) answer {
	if in.vars["device"] == "" {
		return list(c.Devices(in.vars["peerid"]))
	}
	return list(c.Device(in.vars["peerid"], "/"+in.vars["device"]))
}

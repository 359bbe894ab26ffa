package gd2

import (
	"errors"
	"io"
	"maps"
	"net/http"

	"github.com/google/uuid"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/option"
	"quarry.storage/quarry/test/gd2/volume"
)

func validPeer(in input) *cluster.Failure {
	if uuid.Validate(in.vars["peerid"]) != nil {
		return cluster.Fail(http.StatusBadRequest, "invalid peer-id passed in url")
	}
	return nil
}

func editDevice(c *cluster.Call, in input) answer {
	if f := validPeer(in); f != nil {
		return failed(f)
	}
	if in.vars["device"] == "" {
		return failed(cluster.Fail(http.StatusBadRequest, "device not provided in URL"))
	}
	var r struct {
		State string `json:"state"`
	}
	if f := in.parse(&r); f != nil {
		return failed(f)
	}
	return done(http.StatusOK, c.EditDevice(in.vars["peerid"], "/"+in.vars["device"], r.State))
}

// statedump fails where another program keeps the store.
func statedump(c *cluster.Call, _ input) answer {
	const kind = "application/json; charset=utf-8"
	if len(c.C.Members()) == 0 {
		return answer{status: http.StatusInternalServerError, kind: kind}
	}
	a := ok(http.StatusOK, map[string]any{
		"cluster-id": c.C.ID, "peer-id": c.N.ID(), "version": Version, "op_version": 50000, "cmdline": []string{}, "config": map[string]any{},
		"file_descriptor_limit": 0, "http": map[string]any{}, "memstats": map[string]any{}, "pmap": map[string]any{}, "raft.status": map[string]any{},
		"store": map[string]any{}, "sunrpc_clients_connected": 0, "txn": map[string]any{},
	})
	a.kind = kind
	return a
}

// clusterOption is an option of the cluster as it is told.
type clusterOption struct {
	Key      string `json:"key"`
	Value    string `json:"value"`
	Default  string `json:"default"`
	Modified bool   `json:"modified"`
}

func clusterOptions(c *cluster.Call, _ input) answer {
	if f := c.Read(); f != nil {
		return failed(f)
	}
	var out []clusterOption
	for k, def := range option.Cluster {
		value, set := c.C.Options[k]
		if !set {
			value = def
		}
		out = append(out, clusterOption{Key: k, Value: value, Default: def, Modified: set})
	}
	return ok(http.StatusOK, out)
}

// setClusterOptions sets all options or none. It answers with all that were ever set.
func setClusterOptions(c *cluster.Call, in input) answer {
	var r struct {
		Options map[string]string `json:"options"`
	}
	if f := in.parse(&r); f != nil {
		return failed(f)
	}
	unlock, f := c.Lock("clusteroptions")
	if f != nil {
		return failed(f)
	}
	defer unlock()
	next := maps.Clone(c.C.Options)
	if next == nil {
		next = map[string]string{}
	}
	for k, v := range r.Options {
		if _, ok := option.Cluster[k]; !ok {
			return failed(cluster.Fail(http.StatusInternalServerError, "Invalid global option: %s", k))
		}
		if err := option.CheckCluster(k, v); err != nil {
			return failed(cluster.Fail(http.StatusBadRequest, "%s failed validation: %s", k, err))
		}
		next[k] = v
	}
	c.C.Options = next
	return ok(http.StatusOK, next)
}

func createVolume(c *cluster.Call, in input) answer {
	var r volume.CreateRequest
	if f := in.parse(&r); f != nil {
		return failed(f)
	}
	v, f := volume.Create(c, r)
	if f != nil {
		return failed(f)
	}
	return made(in, v.Name, v)
}

// startVolume needs no body. One that cannot be read is told of in the words of the decoder.
func startVolume(c *cluster.Call, in input) answer {
	var r volume.StartRequest
	if err := in.decode(&r); err != nil && !errors.Is(err, io.EOF) {
		return failed(cluster.Fail(http.StatusBadRequest, "%s", err))
	}
	return list(volume.Start(c, in.volume(), r))
}

func editVolume(c *cluster.Call, in input) answer {
	var r volume.EditRequest
	if err := in.decode(&r); err != nil {
		return failed(cluster.Fail(http.StatusBadRequest, "%s", err))
	}
	return list(volume.Edit(c, in.volume(), r))
}

func snap(c *cluster.Call, in input) answer {
	var r volume.SnapshotRequest
	if err := in.decode(&r); err != nil {
		return failed(cluster.Fail(http.StatusBadRequest, "%s", err))
	}
	s, f := volume.Snap(c, r)
	if f != nil {
		return failed(f)
	}
	return made(in, s.Volume.Name, s)
}

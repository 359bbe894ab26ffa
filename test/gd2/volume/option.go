package volume

import (
	"maps"
	"slices"
	"strings"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/option"
)

// OptionValue is an option of a volume as it is told.
type OptionValue struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Modified bool   `json:"modified"`
	Default  string `json:"default-value"`
	Level    string `json:"option-level"`
}

// Options returns all options with a volume's values.
func Options(c *cluster.Call, name string) ([]OptionValue, *cluster.Failure) {
	v, f := find(c, name)
	if f != nil {
		return nil, f
	}
	var out []OptionValue
	for _, o := range option.All() {
		out = append(out, value(v, o, o.Name))
	}
	return out, nil
}

// Option returns one option.
func Option(c *cluster.Call, name, key string) (OptionValue, *cluster.Failure) {
	v, f := find(c, name)
	if f != nil {
		return OptionValue{}, f
	}
	o, err := option.Find(key)
	if err != nil {
		return OptionValue{}, cluster.Fail(404, "%s", err)
	}
	return value(v, o, key), nil
}

func value(v *cluster.Volume, o option.Option, name string) OptionValue {
	out := OptionValue{Name: name, Value: o.Default, Default: o.Default, Level: o.Level}
	for _, k := range slices.Sorted(maps.Keys(v.Options)) {
		if strings.HasSuffix(k, name) {
			out.Value, out.Modified = v.Options[k], true
			break
		}
	}
	return out
}

// OptionRequest is what options are set with.
type OptionRequest struct {
	Options map[string]string `json:"options"`
	Levels
}

const optionStep = "vol-option.Validate"

// SetOptions sets options of a volume: all, or none.
func SetOptions(c *cluster.Call, name string, r OptionRequest) (cluster.Volume, *cluster.Failure) {
	v, unlock, f := locked(c, name)
	if f != nil {
		return cluster.Volume{}, f
	}
	defer unlock()
	c.Settle()
	if f := eachUp(c, c.C.PeerIDs()); f != nil {
		return cluster.Volume{}, f
	}
	for k, value := range r.Options {
		if err := option.Check(k, value, r.flags()); err != nil {
			return cluster.Volume{}, cluster.FailStep(optionStep, "validation failed for volume option: "+err.Error(), c.N.ID())
		}
	}
	maps.Copy(v.Options, normal(r.Options))
	return show(v), nil
}

// ResetRequest is what options are reset with.
type ResetRequest struct {
	Options []string `json:"options"`
	Force   bool     `json:"force"`
	All     bool     `json:"all"`
}

// Reset takes options off a volume. It returns the volume in the form that the store has of it.
func Reset(c *cluster.Call, name string, r ResetRequest) (map[string]any, *cluster.Failure) {
	if _, f := find(c, name); f != nil {
		return nil, f
	}
	v, unlock, f := locked(c, name)
	if f != nil {
		return nil, f
	}
	defer unlock()
	if r.All {
		r.Options = slices.Sorted(maps.Keys(v.Options))
	}
	next := maps.Clone(v.Options)
	for _, k := range r.Options {
		if i := slices.IndexFunc(option.Defaults(strings.ToLower(v.Subvols[0].Type)), func(m option.Member) bool { return m.Name == k }); i >= 0 {
			next[k] = option.Defaults(strings.ToLower(v.Subvols[0].Type))[i].OnValue
			continue
		}
		if _, ok := next[k]; !ok {
			return nil, cluster.Fail(400, "Option trying to reset is not set or invalid option")
		}
		delete(next, k)
	}
	if f := eachUp(c, c.C.PeerIDs()); f != nil {
		return nil, f
	}
	v.Options = next
	return internal(c, v), nil
}

// internal is a volume in the store's form, which one call shows by mistake.
func internal(c *cluster.Call, v *cluster.Volume) map[string]any {
	kinds := map[string]int{"Distribute": 0, "Replicate": 1, "Disperse": 2, "Distributed-Replicate": 3, "Distributed-Disperse": 4}
	states := map[cluster.State]int{cluster.Created: 0, cluster.Started: 1, cluster.Stopped: 2}
	var subvols []map[string]any
	for _, s := range v.Subvols {
		var bricks []map[string]any
		for _, b := range s.Bricks {
			bricks = append(bricks, map[string]any{
				"ID": b.ID, "Hostname": b.Host, "PeerID": b.PeerID, "Path": b.Path, "VolumeName": v.Name, "VolfileID": v.Name, "VolumeID": v.ID,
				"Type": 0, "Decommissioned": false, "PType": v.Metadata[provisionKey], "BrickDirSuffix": "", "DevicePath": "", "FsType": "", "MntOpts": "",
				"TpName": b.TP, "LvName": b.LV, "VgName": "", "RootDevice": b.Device, "TotalSize": b.Total,
			})
		}
		subvols = append(subvols, map[string]any{
			"ID": c.ID(), "Name": s.Name, "Type": kinds[s.Type], "Bricks": bricks, "Subvols": nil, "ReplicaCount": s.ReplicaCount,
			"ArbiterCount": s.ArbiterCount, "DisperseCount": s.DisperseCount, "RedundancyCount": s.RedundancyCount,
		})
	}
	return map[string]any{
		"ID": v.ID, "Name": v.Name, "VolfileID": v.Name, "Type": kinds[v.Type], "Transport": v.Transport, "DistCount": v.DistributeCount,
		"Options": v.Options, "State": states[v.State], "Checksum": 0, "Version": 0, "Subvols": subvols,
		"Auth": map[string]string{"Username": c.ID(), "Password": c.ID()}, "GraphMap": nil, "Metadata": v.Metadata, "SnapList": v.SnapList,
		"SnapshotReserveFactor": v.Reserve, "Capacity": v.Capacity, "ProvisionerType": v.Provisioner,
	}
}

package recorded

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quarry.storage/quarry/test/gd2/cluster"
	"quarry.storage/quarry/test/gd2/volume"
)

const gib3 = 3154116608

var recordedAt = time.Unix(1795220581, 0)

// server sets up a server as those that were recorded: one disk at dev/d1.
func (s *stage) server(i int, id, clusterID string, blocks map[string]*cluster.Block) *cluster.Node {
	name := fmt.Sprintf("gd%d", i)
	home := "/var/lib/gd2/" + name
	return s.add(cluster.NodeConfig{
		Name: name, PeerAddress: fmt.Sprintf("10.98.0.%d:24008", i), ClientAddress: fmt.Sprintf("10.98.0.%d:24007", i), StateDir: home + "/state",
		FirstID: id, FirstCluster: clusterID,
		Disk: &cluster.Disk{
			Blocks: blocks, Files: []string{"/etc/hostname"}, NoDeviceMapper: true,
			Mounts: []*cluster.Filesystem{{
				Mount: home + "/dev/d1", Device: []string{"", "/dev/loop1", "/dev/loop4", "/dev/loop5", "/dev/loop6"}[i], Type: "xfs",
				Options: "rw,relatime,inode64,logbufs=8,logbsize=32k,noquota", Total: gib3, Free: 3098292224,
			}},
		},
	})
}

func (s *stage) free(name string, bytes uint64) {
	s.world.Do(func() { s.node(name).Disk.Mounts[0].Free = bytes })
}

// axScript is four servers with an external store, through four recordings that follow each other.
func axScript(t *testing.T) *script {
	blocks := map[string]*cluster.Block{"/dev/loop7": {Size: 896 << 20}, "/dev/loop8": {Size: 896 << 20, Signature: true}}
	st := newStage(t, recordedAt, cluster.Config{HealBroken: true, Lease: 29400 * time.Millisecond})
	s := &script{stage: st, runs: []string{"a", "v", "w", "x"}, early: map[string]*sent{}}
	for i, first := range [][2]string{
		{"82d3c646-aaee-4bb5-8583-a7154c0859fd", "4f6c539d-1b02-4ff1-9c94-55da0bbbba40"},
		{"8fbee2d9-b1d0-4fca-9f2f-d4b193ca0d01", ""},
		{"b42340ff-b5e4-4ddb-9b99-b414d9f02609", "7059117c-a7ac-4e69-a285-c4bddfb85df5"},
		{},
	} {
		s.server(i+1, first[0], first[1], blocks).Start()
	}
	s.free("gd3", 3098259456)
	s.world.Alias("alias2", "10.98.0.2")
	s.before = map[string]func(){
		"a132": func() { s.do("gd1", "DELETE /v1/volumes/mux", "") },
		"a135": func() { s.mourn("gd1") },
		"a139": func() { s.pass(30 * time.Second) },
		"a145": func() { s.node("gd1").Start() },
		"v001": func() {
			s.device("gd1", "/var/lib/gd2/gd1/dev/d1", "enabled")
			s.device("gd1", "/var/lib/gd2/gd1/dev/d1/", "disabled")
		},
		"v016": func() { s.do("gd1", "DELETE /v1/volumes/v1", "") },
		"v040": func() { s.do("gd1", "DELETE /v1/volumes/opt1", "") },
		"v091": func() { s.stopBrick("gd2", "rep3") },
		"w001": func() { s.do("gd1", "DELETE /v1/volumes/dist1", "") },
		"w004": func() {
			s.stopBrick("gd2", "rep3")
			s.call("gd1", func(c *cluster.Call) { volume.Write(c, "rep3", "/f1", "/f2", "/f3") })
		},
		"w006": func() { s.do("gd1", "POST /v1/volumes/rep3/start", `{"force-start-bricks":true}`) },
		"w037": func() { s.do("gd1", "POST /v1/volumes/smart/stop", "") },
		"w042": func() { s.device("gd1", "/dev/loop7", "disabled") },
		"w043": func() {
			s.create("gd1", "lock", 2, "gd1", "gd2")
			s.node("gd2").Freeze()
			s.early["w047"] = s.arrive(s.send("gd1", "POST", "/v1/volumes/lock/start", "", nil, nil))
		},
		"w049": func() { s.node("gd2").Thaw() },
	}
	s.xBefore()
	s.axObserve()
	return s
}

// xBefore is what happened in the recording of dead peers.
func (s *script) xBefore() {
	s.before["x001"] = func() {
		s.node("gd4").Stop()
		clusterID := ""
		s.world.Do(func() { clusterID = s.node("gd1").Cluster().ID })
		s.node("gd4").Reset("44444444-4444-4444-8444-444444444444", clusterID)
		s.node("gd4").Start()
	}
	s.before["x005"] = func() { s.node("gd4").Stop() }
	s.before["x007"] = func() { s.node("gd4").Start() }
	s.before["x012"] = func() { s.node("gd4").Stop(); s.node("gd4").Start() }
	s.before["x015"] = func() {
		s.do("gd1", "POST /v1/peers/44444444-4444-4444-8444-444444444444", `{"zone":"z4"}`)
		s.kill("gd4", false)
		s.pass(500 * time.Millisecond)
	}
	s.before["x017"] = func() {
		s.node("gd4").Start()
		s.create("gd1", "dead1", 0, "gd3")
		s.create("gd1", "dead2", 2, "gd1", "gd3")
		ids := []string{s.peer("gd1"), s.peer("gd2"), s.peer("gd3")}
		s.do("gd1", "POST /v1/volumes", `{"name":"sm3","size":419430400,"replica":3,"provisioner":"loop","limit-peers":["`+strings.Join(ids, `","`)+`"]}`)
		s.do("gd1", "POST /v1/volumes/sm3/start", "")
		s.world.SetLease(22600 * time.Millisecond)
		s.kill("gd3", true)
	}
	s.before["x039"] = func() { s.node("gd3").Start() }
	s.before["x045"] = func() { s.empty("gd3") }
	s.before["x050"] = func() { s.free("gd3", 3097882624) }
	s.before["x051"] = func() { s.do("gd1", "DELETE /v1/peers/"+s.peer("gd3"), "") }
}

// call does something inside the model, as a call at a server.
func (s *stage) call(node string, do func(*cluster.Call)) {
	c := s.world.Begin(s.node(node))
	defer c.End()
	do(c)
}

func (s *stage) peer(name string) (id string) {
	s.world.Do(func() { id = s.node(name).ID() })
	return id
}

func (s *stage) device(node, device, state string) {
	s.do("gd1", "POST /v1/devices/"+s.peer(node)+device, `{"state":"`+state+`"}`)
}

// create makes a volume with one brick on each of some servers.
func (s *stage) create(at, name string, replica int, on ...string) {
	kind, bricks := "distribute", []string{}
	if replica > 0 {
		kind = "replicate"
	}
	for _, n := range on {
		bricks = append(bricks, fmt.Sprintf(`{"peerid":%q,"path":"/var/lib/gd2/%s/dev/d1/b/%s"}`, s.peer(n), n, name))
	}
	s.do(at, "POST /v1/volumes", fmt.Sprintf(`{"name":%q,"flags":{"create-brick-dir":true},"subvols":[{"type":%q,"replica":%d,"bricks":[%s]}]}`, name, kind, replica, strings.Join(bricks, ",")))
}

func (s *stage) stopBrick(node, name string) {
	s.world.Do(func() {
		n := s.node(node)
		for _, b := range n.Cluster().Volumes[name].Bricks() {
			if b.PeerID == n.ID() {
				n.StopBrick(b.ID)
			}
		}
	})
}

// empty deletes all volumes that have a brick on a server.
func (s *stage) empty(node string) {
	var names []string
	s.world.Do(func() {
		n := s.node(node)
		for name, v := range n.Cluster().Volumes {
			if slices.Contains(v.Peers(), n.ID()) {
				names = append(names, name+" "+string(v.State))
			}
		}
	})
	for _, one := range names {
		name, state, _ := strings.Cut(one, " ")
		if state == "Started" {
			s.do("gd1", "POST /v1/volumes/"+name+"/stop", "")
		}
		s.do("gd1", "DELETE /v1/volumes/"+name, "")
	}
}

func (s *script) axObserve() {
	s.observe = map[string]func(recording) error{
		"a035": func(r recording) error {
			if s.peer("gd2") == field[string](r, "before") {
				return fmt.Errorf("the ID did not change")
			}
			return s.sameIDs([]string{field[string](r, "after")}, []string{s.peer("gd2")})
		},
		"a050": func(r recording) error { return s.sameIDs(field[[]string](r, "after"), []string{s.peer("gd4")}) },
		"a114": func(r recording) error {
			group := ""
			s.world.Do(func() { group = s.node("gd1").Disk.Blocks["/dev/loop7"].Group })
			if !strings.Contains(field[string](r, "pvs_vgs"), "/dev/loop7 "+group+" lvm2") || group == "" {
				return fmt.Errorf("the volume group is %q", group)
			}
			return nil
		},
		"a138": func(r recording) error {
			for range 60 {
				s.pass(time.Second)
			}
			return about(s.offline["gd1"].Sub(s.ended["gd1"]), r.Seconds)
		},
		"v110": s.seeDirectory,
		"w029": s.seeImages,
		"w035": s.seeMounts,
		"w039": s.seeMounts,
		"x021": func(r recording) error { return about(s.offline["gd3"].Sub(s.ended["gd3"]), r.Seconds) },
		"x051": s.joinTogether,
	}
}

// seeDirectory looks at what the deletion of a volume left.
func (s *script) seeDirectory(r recording) (err error) {
	listed := field[string](r, "ls")
	s.world.Do(func() {
		d, at := s.node("gd1").Disk, "/var/lib/gd2/gd1/dev/d1/b/dist1"
		id, ok := d.Attribute(at, cluster.VolumeID)
		if _, gfid := d.Attribute(at, cluster.GFID); !ok || !gfid || !d.Exists(at+"/sub") {
			err = fmt.Errorf("directory or attributes are gone")
		}
		if theirs := strings.ReplaceAll(s.cmp.theirs[id], "-", ""); !strings.Contains(listed, "trusted.glusterfs.volume-id=0x"+theirs+"\n") {
			err = fmt.Errorf("the volume's ID is %s", id)
		}
	})
	return err
}

// seeImages compares the images of bricks that are left on each server.
func (s *script) seeImages(r recording) (err error) {
	s.world.Do(func() {
		for _, name := range []string{"gd1", "gd2", "gd3"} {
			text := ""
			for file, size := range s.node(name).Disk.Images() {
				text += fmt.Sprintf("%s %d\n", file, size)
			}
			if want := field[string](r, name); text != want {
				err = fmt.Errorf("%s has %q, recorded %q", name, text, want)
			}
		}
	})
	return err
}

// seeMounts compares the mounts of bricks that glusterd2 made, and the images, on the servers that were looked at.
func (s *script) seeMounts(r recording) (err error) {
	looked := map[string]string{}
	for _, name := range []string{"gd1", "gd2", "gd3"} {
		if _, ok := r.all[name]; ok {
			looked[name] = field[string](r, name)
		}
	}
	if _, ok := r.all["ls"]; ok {
		// The number at the end is that of the brick's processes.
		looked["gd2"] = strings.TrimSuffix(field[string](r, "ls"), "1\n")
		for file := range s.node("gd2").Disk.Images() {
			looked["gd2"] += file + "\n"
		}
	}
	s.world.Do(func() {
		for name, want := range looked {
			d, text := s.node(name).Disk, ""
			for _, m := range d.Mounts {
				if strings.HasPrefix(m.Mount, "/run/") {
					text += fmt.Sprintf("/dev/loop10 %s %s %s 0 0\n", m.Mount, m.Type, m.Options)
				}
			}
			for file := range d.Images() {
				text += file + "\n"
			}
			if text != want {
				err = fmt.Errorf("%s has %q, recorded %q", name, text, want)
			}
		}
	})
	return err
}

// joinTogether has four requests at once for one server.
func (s *script) joinTogether(r recording) error {
	type one struct {
		Status int             `json:"status"`
		Body   json.RawMessage `json:"body"`
	}
	results := field[[]one](r, "results")
	s.announce(results[3].Body)
	var all []*sent
	for range results {
		all = append(all, s.arrive(s.send("gd1", "POST", "/v1/peers", `{"addresses":["10.98.0.3"]}`, nil, nil)))
	}
	left := slices.Clone(results)
	for _, under := range all {
		got := s.await(under, time.Minute)
		i := slices.IndexFunc(left, func(o one) bool { return o.Status == got.status })
		if i < 0 {
			return fmt.Errorf("one more answers %s", describe(got))
		}
		theirs, err1 := parse(left[i].Body)
		ours, err2 := parse(got.body)
		if err1 != nil || err2 != nil {
			return errors.Join(err1, err2)
		}
		if err := s.cmp.value("body", theirs, ours); err != nil {
			return err
		}
		left = slices.Delete(left, i, i+1)
	}
	return nil
}

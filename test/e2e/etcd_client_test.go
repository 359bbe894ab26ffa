//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// etcdPatience is how long a member may take for one call.
const etcdPatience = 3 * time.Second

// inLab reaches pods: it dials from the network namespace of the lab, to which a socket stays bound.
var inLab = &http.Client{Timeout: etcdPatience, Transport: &http.Transport{
	DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialInside(ctx, filepath.Join("/run/netns", "quarry-"+labName()), network, address)
	},
	// Pods come and go under addresses that others had.
	DisableKeepAlives: true,
}}

func dialInside(ctx context.Context, namespace, network, address string) (conn net.Conn, err error) {
	runtime.LockOSThread()
	home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, err
	}
	defer unix.Close(home)
	away, err := unix.Open(namespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(away)
		err = unix.Setns(away, unix.CLONE_NEWNET)
	}
	if err == nil {
		conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
	}
	if back := unix.Setns(home, unix.CLONE_NEWNET); back != nil {
		// The thread stays locked, and ends with its goroutine.
		return conn, errors.Join(err, back)
	}
	runtime.UnlockOSThread()
	return conn, err
}

// etcdCall calls one member, over the JSON that etcd speaks beside gRPC.
func etcdCall(ctx context.Context, address, method string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+net.JoinHostPort(address, "2379")+"/v3/"+method, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := inLab.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s of %s: %s: %s", method, address, response.Status, text)
	}
	return json.Unmarshal(text, answer)
}

// etcdMember is a member as etcd lists it. One that never started has no name.
type etcdMember struct {
	ID        string   `json:"ID"`
	Name      string   `json:"name"`
	PeerURLs  []string `json:"peerURLs"`
	IsLearner bool     `json:"isLearner"`
}

// etcdStatus is what a member says of itself.
type etcdStatus struct {
	Leader    string `json:"leader"`
	Applied   string `json:"raftAppliedIndex"`
	IsLearner bool   `json:"isLearner"`
}

// index is how far the member has applied what was written.
func (s etcdStatus) index() uint64 {
	n, err := strconv.ParseUint(s.Applied, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// etcdMembers asks the quorum who its members are.
func etcdMembers(ctx context.Context, address string) ([]etcdMember, error) {
	var answer struct {
		Members []etcdMember `json:"members"`
	}
	err := etcdCall(ctx, address, "cluster/member/list", map[string]any{"linearizable": true}, &answer)
	return answer.Members, err
}

func etcdPut(ctx context.Context, address, key, value string) error {
	return etcdCall(ctx, address, "kv/put", map[string][]byte{"key": []byte(key), "value": []byte(value)}, &struct{}{})
}

// etcdKeys reads all keys with a prefix as the member itself has them, without asking the others.
func etcdKeys(ctx context.Context, address, prefix string) (map[string]string, error) {
	end := []byte(prefix)
	end[len(end)-1]++
	var answer struct {
		Kvs []struct {
			Key   string `json:"key"`
			Value string `json:"value"`
		} `json:"kvs"`
	}
	request := map[string]any{"key": []byte(prefix), "range_end": end, "serializable": true}
	if err := etcdCall(ctx, address, "kv/range", request, &answer); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, kv := range answer.Kvs {
		key, err := base64.StdEncoding.DecodeString(kv.Key)
		if err != nil {
			return nil, err
		}
		value, err := base64.StdEncoding.DecodeString(kv.Value)
		if err != nil {
			return nil, err
		}
		out[string(key)] = string(value)
	}
	return out, nil
}

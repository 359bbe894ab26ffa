package gluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// ClusterOption is an option of the cluster. One that was set cannot be unset, and the server takes any text for a value: a bad one breaks every
// later start of a volume.
type ClusterOption struct {
	Value, Default string
	// Modified says that the value differs from the default.
	Modified bool
}

// ClusterOptions returns the options of the cluster by name.
func (s *Server) ClusterOptions(ctx context.Context) (map[string]ClusterOption, error) {
	op := "read the options of the cluster"
	var list []struct {
		Key      string  `json:"key"`
		Value    *string `json:"value"`
		Default  string  `json:"default"`
		Modified bool    `json:"modified"`
	}
	if _, err := s.call(ctx, request{op: op, method: http.MethodGet, path: "/v1/cluster/options", status: http.StatusOK, into: &list}); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, s.unreadable(op, errors.New("the answer has no option"))
	}
	out := map[string]ClusterOption{}
	for _, one := range list {
		if _, twice := out[one.Key]; one.Key == "" || one.Value == nil || twice {
			return nil, s.unreadable(op, fmt.Errorf("option %q has no value, or is listed twice", clean(one.Key)))
		}
		out[one.Key] = ClusterOption{Value: *one.Value, Default: one.Default, Modified: one.Modified}
	}
	return out, nil
}

// SetClusterOptions sets options of the cluster: all, or none if one is not known.
func (s *Server) SetClusterOptions(ctx context.Context, options map[string]string) error {
	op := "set options of the cluster"
	if len(options) == 0 {
		return s.invalid(op, errors.New("no option is given"))
	}
	body := struct {
		Options map[string]string `json:"options"`
	}{options}
	says := map[answerKey]Kind{}
	for k := range options {
		says[answerKey{http.StatusInternalServerError, "Invalid global option: " + k}] = Refused
	}
	set := map[string]string{}
	_, err := s.call(ctx, request{op: op, method: http.MethodPost, path: "/v1/cluster/options", body: body, status: http.StatusOK, into: &set, says: says})
	for k, v := range options {
		if err == nil && set[k] != v {
			err = s.lost(op, fmt.Errorf("the answer does not have the value of %s", k))
		}
	}
	return err
}

// SelfHeal is the option that has a volume heal by itself. It is off where nobody set it.
const SelfHeal = "cluster/replicate.self-heal-daemon"

// VolumeOption returns the value of an option of a volume, with its long name.
func (s *Server) VolumeOption(ctx context.Context, volume, option string) (string, error) {
	op := fmt.Sprintf("read option %s of volume %s", option, volume)
	if err := errors.Join(validVolume(volume), validOption(option)); err != nil {
		return "", s.invalid(op, err)
	}
	var one struct {
		Name  string  `json:"name"`
		Value *string `json:"value"`
	}
	path := "/v1/volumes/" + volume + "/options/" + option
	says := map[answerKey]Kind{
		{http.StatusNotFound, "volume not found"}:            Absent,
		{http.StatusNotFound, "option not found: " + option}: Refused,
	}
	if _, err := s.call(ctx, request{op: op, method: http.MethodGet, path: path, status: http.StatusOK, into: &one, says: says}); err != nil {
		return "", err
	}
	if one.Name != option || one.Value == nil {
		return "", s.unreadable(op, fmt.Errorf("the answer is about option %q", clean(one.Name)))
	}
	return *one.Value, nil
}

// SetVolumeOptions sets options of a volume, those for the advanced among them.
func (s *Server) SetVolumeOptions(ctx context.Context, volume string, options map[string]string) error {
	op := "set options of volume " + volume
	err := validVolume(volume)
	for k := range options {
		err = errors.Join(err, validOption(k))
	}
	if err == nil && len(options) == 0 {
		err = errors.New("no option is given")
	}
	if err != nil {
		return s.invalid(op, err)
	}
	body := struct {
		Options  map[string]string `json:"options"`
		Advanced bool              `json:"allow-advanced-options"`
	}{options, true}
	var one volumeAnswer
	_, err = s.call(ctx, request{
		op: op, method: http.MethodPost, path: "/v1/volumes/" + volume + "/options", body: body, status: http.StatusOK, into: &one, says: ofVolume,
	})
	return s.about(op, volume, one, err)
}

func validOption(name string) error {
	if name == "" || validDevice("/"+name) != nil {
		return fmt.Errorf("%q is not the name of an option", name)
	}
	return nil
}

package subvolume

import (
	"context"
	"errors"
	"fmt"

	"quarry.storage/quarry/controller/internal/ceph"
	"quarry.storage/quarry/pkg/cephname"
	"quarry.storage/quarry/pkg/cephvolume"
)

// ErrCipher means that the user has a key of another kind. It is left as it is: mounts use it.
var ErrCipher = errors.New("the key is of another kind")

// caps are what a node may do: know the cluster, and use the group of the volumes.
var caps = []string{
	"mon", "allow r fsname=" + cephname.Filesystem,
	"mds", "allow rw fsname=" + cephname.Filesystem + " path=" + cephname.GroupPath,
	"osd", "allow rw tag cephfs data=" + cephname.Filesystem,
}

// EnsureUser makes the user that nodes mount with, limited to the group of the volumes, and returns its key; an empty cipher leaves the kind of the key to
// Ceph. A user that exists keeps its key, and gets the limits if it has others. The kind is ErrCipher if it is not the one that is wanted: Ceph would not tell.
func (c *Client) EnsureUser(ctx context.Context, cipher cephvolume.Cipher) (cephvolume.Key, error) {
	entity := "client." + cephname.ClientUser
	args := append([]string{"auth", "get-or-create", entity}, caps...)
	if cipher != "" {
		args = append(args, "--key-type", string(cipher))
	}
	key, have, err := c.key(ctx, args...)
	if errors.Is(err, ceph.ErrRefused) {
		// It exists with other limits, or this kind of key is not allowed.
		if _, _, there := c.key(ctx, "auth", "get", entity); there != nil {
			return cephvolume.Key{}, err
		}
		key, have, err = c.key(ctx, append([]string{"auth", "caps", entity}, caps...)...)
	}
	if err == nil && cipher != "" && have != cipher {
		err = fmt.Errorf("%s has a key of kind %s, not %s: %w", entity, have, cipher, ErrCipher)
	}
	return key, err
}

// key runs a command that prints one user with its key. What it prints is in no error.
func (c *Client) key(ctx context.Context, args ...string) (cephvolume.Key, cephvolume.Cipher, error) {
	var list []struct {
		Key string `json:"key"`
	}
	if err := c.ceph.Ask(ctx, &list, args...); err != nil {
		return cephvolume.Key{}, "", err
	}
	if len(list) != 1 {
		return cephvolume.Key{}, "", fmt.Errorf("ceph %s prints %d users", args[1], len(list))
	}
	return cephvolume.ParseKey(list[0].Key)
}

// AllowAES lets keys be made, and used, that kernels before 7.0 understand. Ceph warns of that for as long as it is so.
func (c *Client) AllowAES(ctx context.Context) error {
	_, err := c.ceph.Run(ctx, "mon", "set", "auth_allowed_ciphers", string(cephvolume.CipherAES)+","+string(cephvolume.CipherAES256))
	return err
}

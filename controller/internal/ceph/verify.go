package ceph

import "context"

// Verify returns an error unless the monitors answer, and are those of the Cluster. Whoever runs commands by Run or Ask verifies first.
func (c *Client) Verify(ctx context.Context) error {
	_, err := c.quorum(ctx)
	return err
}

// Run runs a command, and returns what it prints. It is for the packages below this one, which know more commands.
func (c *Client) Run(ctx context.Context, args ...string) ([]byte, error) { return c.run(ctx, args...) }

// Ask runs a command as Run does, and reads the JSON that it prints.
func (c *Client) Ask(ctx context.Context, into any, args ...string) error {
	return c.ask(ctx, into, args...)
}

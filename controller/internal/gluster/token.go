package gluster

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"time"
)

// tokenLife is how long a token may be used. A server gives no leeway, so it also is how far its clock may be ahead.
const tokenLife = 2 * time.Minute

// token makes the token of one request. It names no time of issue: a server whose clock is behind would refuse it as issued in the future.
func token(secret []byte, method, path string, now time.Time) (string, error) {
	hash := sha256.Sum256([]byte(method + "&" + path))
	claims, err := json.Marshal(map[string]any{
		"iss": User,
		"exp": now.Add(tokenLife).Unix(),
		// The path is the decoded one, without the query: that is what the server hashes.
		"qsh": hex.EncodeToString(hash[:]),
	})
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	signed := enc.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc.EncodeToString(claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(signed))
	return signed + "." + enc.EncodeToString(mac.Sum(nil)), nil
}

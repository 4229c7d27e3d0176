package service

import (
	"errors"
	"fmt"
	"os"

	"github.com/agentsignal/agentsignal/actors/record"
	"github.com/agentsignal/agentsignal/actors/signal/credential"
	"github.com/agentsignal/agentsignal/configs"
)

// Settings of keys, which name them in faults and to other nodes.
const (
	settingJWTKeys        = "auth.jwt_keys"
	settingEncryptionKeys = "security.encryption_keys"
	settingRecordKeys     = "security.record_keys"
)

// Files of keys, in a data directory and where MakeKeys makes them.
const (
	jwtKeyFile        = "jwt.key"
	encryptionKeyFile = "encryption.key"
	recordKeyFile     = "record.key"
)

// SecretFiles returns the names of the files with keys in a data directory. Only their owner may have rights on them.
func SecretFiles() []string { return []string{jwtKeyFile, encryptionKeyFile, recordKeyFile} }

// MakeKeys makes the keys that nodes share as files in dir. It keeps those that exist.
func MakeKeys(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory for keys: %w", err)
	}
	_, err := configs.LoadOrMakeKeys(dir, jwtKeyFile)
	_, err2 := configs.LoadOrMakeKeys(dir, encryptionKeyFile)
	_, err3 := loadOrMakeRecordKey(dir)
	return errors.Join(err, err2, err3)
}

// keys are the secrets that the nodes of an installation share.
type keys struct {
	signing    []credential.NamedKey // of tokens
	encryption []credential.NamedKey // of the secrets of webhooks
	record     *record.Keys          // of the record of signals
}

// readKeys returns the configured keys, or those in the files of the data directory, which it makes where they do not exist.
func readKeys(c configs.Config) (keys, error) {
	var k keys
	var err error
	if k.signing, err = keysOf(settingJWTKeys, c.Auth.JWTKeys, c.DataDir, jwtKeyFile); err != nil {
		return k, err
	}
	k.encryption, err = keysOf(settingEncryptionKeys, c.Security.EncryptionKeys, c.DataDir, encryptionKeyFile)
	if err != nil {
		return k, err
	}
	list := string(c.Security.RecordKeys)
	if list == "" {
		if list, err = loadOrMakeRecordKey(c.DataDir); err != nil {
			return k, fmt.Errorf("%s: %w", settingRecordKeys, err)
		}
	}
	if k.record, err = record.ParseKeys(list); err != nil {
		return k, fmt.Errorf("%s: %w", settingRecordKeys, err)
	}
	return k, nil
}

// keysOf returns the keys of a setting, or else those of a file in the directory dir, which it makes if it does not exist.
func keysOf(setting string, list configs.Secret, dir, file string) ([]credential.NamedKey, error) {
	keys, err := configs.ParseKeys(string(list))
	if list == "" {
		keys, err = configs.LoadOrMakeKeys(dir, file)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	return keys, nil
}

func loadOrMakeRecordKey(dir string) (string, error) {
	return configs.LoadOrMakeSecret(dir, recordKeyFile, func() (string, error) { return record.NewKey("") })
}

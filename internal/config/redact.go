package config

import "maps"

const hidden = "[hidden]"

// Redacted returns a copy for logs. It holds the settings named here and no
// others, so that a new one is hidden until somebody decides otherwise.
func (c Config) Redacted() Config {
	return Config{
		Kafka: Kafka{
			Bootstrap: c.Kafka.Bootstrap,
			TLS: ClientTLS{ // file names, no contents
				Enabled: c.Kafka.TLS.Enabled, CA: c.Kafka.TLS.CA, Cert: c.Kafka.TLS.Cert, Key: c.Kafka.TLS.Key,
				ServerName: c.Kafka.TLS.ServerName, InsecureSkipVerify: c.Kafka.TLS.InsecureSkipVerify,
			},
			SASL: SASL{
				Mechanism:    c.Kafka.SASL.Mechanism,
				Username:     c.Kafka.SASL.Username,
				Password:     hide(c.Kafka.SASL.Password),
				PasswordFile: c.Kafka.SASL.PasswordFile,
			},
		},
		Listen:    c.Listen,
		Advertise: c.Advertise,
		TLS:       ServerTLS{Cert: c.TLS.Cert, Key: c.TLS.Key, ClientCA: c.TLS.ClientCA},
		Data:      c.Data,
		Embedded: Embedded{
			SyncWrites:       c.Embedded.SyncWrites,
			Partitions:       c.Embedded.Partitions,
			AutoCreateTopics: c.Embedded.AutoCreateTopics,
			RetentionCheckMs: c.Embedded.RetentionCheckMs,
		},
		Admin:             c.Admin,
		Views:             Views{AutoCreate: c.Views.AutoCreate, AutoCreateMax: c.Views.AutoCreateMax, Compression: c.Views.Compression, Named: maps.Clone(c.Views.Named)},
		IndividualCommits: c.IndividualCommits,
		KeyRangeFetch:     c.KeyRangeFetch,
		CooperativeFetch:  c.CooperativeFetch,
		Topics:            redactedTopics(c.Topics),
		Limits: Limits{
			MaxRequestBytes:      c.Limits.MaxRequestBytes,
			MaxIdleMs:            c.Limits.MaxIdleMs,
			MaxConnections:       c.Limits.MaxConnections,
			KeyRangeHashingBytes: c.Limits.KeyRangeHashingBytes,
			IndividualRanges:     c.Limits.IndividualRanges,
			AuthorizationRecheck: c.Limits.AuthorizationRecheck,
			DrainTimeout:         c.Limits.DrainTimeout,
			StartTimeout:         c.Limits.StartTimeout,
		},
		Log: Log{Level: c.Log.Level, Format: c.Log.Format},
	}
}

func redactedTopics(topics map[string]Topic) map[string]Topic {
	if topics == nil {
		return nil
	}
	shown := make(map[string]Topic, len(topics))
	for name, t := range topics {
		shown[name] = Topic{KeyRangeFetch: t.KeyRangeFetch, CooperativeFetch: t.CooperativeFetch, HashingLoad: t.HashingLoad}
	}
	return shown
}

func hide(secret string) string {
	if secret == "" {
		return ""
	}
	return hidden
}

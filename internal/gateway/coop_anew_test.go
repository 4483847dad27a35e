package gateway

import (
	"testing"
	"time"
)

// A topic is deleted, and made anew with fewer records. What a member is given of that through one gateway, another gateway gives to nobody: neither one whose members have fetched only
// the old one, nor one that has read in the log of both before somebody fetches there.
func TestWhoHasWhatOfATopicMadeAnew(t *testing.T) {
	t.Parallel()
	for name, knows := range map[string]bool{"the other gateway has served the old one": true, "the other gateway has only read the log": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, group, topic, gone, _ := cooperation(t, 10)
			gone.wantGiven("0-9#1")
			m := w.cooperate(group, topic)
			o := w.cooperate(group, topic).at(w.another())
			if knows {
				_ = o.fetch(0)
			}
			gone.leave()
			if err := w.gw.cluster.DeleteTopic(t.Context(), topic); err != nil {
				t.Fatal(err)
			}
			w.topic(topic, 1)
			w.produce(topic, 5)
			w.until("the new topic is seen", func() bool { return m.fetch(time.Second) == "0-4#1" })
			m.has = acquired(0, 4)
			if !knows {
				if err := o.w.gw.facts.log.CatchUp(t.Context(), group); err != nil {
					t.Fatal(err)
				}
			}
			var given string
			w.until("the new topic is seen there", func() bool {
				given = o.fetch(time.Second)
				p := o.w.gw.coop.known(factKey{group, topic, 0})
				p.mu.Lock()
				defer p.mu.Unlock()
				return p.source.TopicID == w.topicID(topic)
			})
			if given != "" {
				t.Errorf("%s is given to two members", given)
			}
		})
	}
}

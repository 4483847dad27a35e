package gateway

import (
	"testing"
	"time"

	"github.com/tandem-kafka/tandem/internal/view"
)

// Metadata answers before version 10 have no topic ids. A client of an old
// version must not take the id away under which others fetch the view.
func TestOldMetadataKeepsTheTopicID(t *testing.T) {
	id, other := [16]byte{1}, [16]byte{2}
	v := &views{
		byName: map[string]*View{}, byID: map[[16]byte]*View{}, bySource: map[string][]*View{},
		plain: map[string]struct{}{}, plainIDs: map[[16]byte]time.Time{},
	}
	v.putLocked(&View{Definition: view.Definition{Name: "orders.view16", Source: "orders"}, BackingID: id, Backing: 16})
	v.learn("orders.view16", [16]byte{}, 16)
	v.learn("orders.view16", [16]byte{}, 32)
	if w := v.ID(id); w == nil || w.Backing != 32 {
		t.Fatalf("by id: %+v", w)
	}
	v.learn("orders.view16", other, 32) // made anew
	if w := v.ID(other); w == nil || v.ID(id) != nil {
		t.Fatalf("by the new id: %+v", w)
	}
}

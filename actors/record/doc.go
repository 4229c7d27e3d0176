// Package record makes the leaves, trees and checkpoints of a record that cannot be rewritten:
// each creation and each closing of a signal is a leaf of the Merkle log of its partition, in the
// order of the signal log. Package verify checks them, and imports nothing of this service.
// Decision 37 has the format and its reasons.
package record

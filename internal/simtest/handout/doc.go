// Package handout plays package acquire from seeds: several gateways that hold a State of one log, with appends that are lost or late, and members of a
// group that fetch, freeze, die, leave and lose answers. Gateways crash and read what compaction has left of the log, and the group is reset.
//
// Its judge sees everything. It holds that nothing is given to a member while another one has it and is in time, that attempts are what the log says they
// are, that whoever reads the log anew comes to the same verdicts, and that in the end everything is done.
package handout

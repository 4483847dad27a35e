// Package chaos kills what a group depends on, at random moments from a printed seed: gateways, members, brokers; it freezes members
// beyond their session and makes the group rebalance, while producers write. A ledger judges what the members did: nothing lost, order per
// key, the stable offset on the source never beyond an unfinished record, and in the end every record done. Members that consume,
// transform and produce in transactions are judged by their output, which holds each record once. Members that share by record have no order, but nothing of theirs is given to another while they are alive, in their group and in
// time, and each time that a record is given out counts (judgeByRecord).
//
// A scene is one source, its view, its group and its members; its rounds are disturbances, each of which the group has to get over.
// Scenes run side by side on one cluster: they wait more than they work. One of them at a time has a broker down.
//
// TANDEM_SEED repeats the choices of a scene (moments still depend on the machine), TANDEM_ROUNDS sets the number of its rounds.
package chaos

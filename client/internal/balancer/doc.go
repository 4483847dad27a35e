// Package balancer lets a kgo client be a member of a group whose members share partitions by key: it is a kgo.GroupBalancer
// around package assignor, and it reports the key ranges that the member is given and loses.
//
// kgo knows partitions only. Several members may have parts of one partition, and a member's part of a partition may change while
// kgo sees the same partition before and after. So the Balancer keeps the key ranges itself:
//
//   - kgo asks for a member's metadata before each join (JoinGroupMetadata): it says what the member has;
//   - it hands over the new assignment after each sync (ParseSyncAssignment): the Balancer sets it aside;
//   - it then calls OnPartitionsRevoked, if whole partitions went, and OnPartitionsAssigned, always: the first of them gives up all
//     key ranges that are not in the new assignment, those of partitions that stay included, and the second takes the new ones.
//
// A member that lost something it held through the rebalance must join again, so that others can be given it. kgo does that when
// whole partitions went; for key ranges the Balancer calls ForceRebalance. The metadata has changed then, so the coordinator
// begins a new generation.
//
// One protocol name serves eager and cooperative members, also in one group: what counts is whether a member says that it still
// holds something when it joins. A group can go from one to the other member by member.
//
// Groups of KIP-848 have no assignors of clients: kgo stays with the classic protocol as long as this Balancer is the first of its
// balancers, and a member that insists on KIP-848 (or on another assignor) cannot be in a group with this one: the coordinator
// answers INCONSISTENT_GROUP_PROTOCOL.
package balancer

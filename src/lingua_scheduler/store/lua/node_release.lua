-- node_release: end a node's quarantine now, and forget the failures that led to it.
-- Replies: released | kept (it is in no quarantine) | gone
local owners  = KEYS[1]   -- hash node -> epoch instance connection features
local sick    = KEYS[2]   -- zset node -> quarantined until
local trouble = KEYS[3]   -- hash node -> its last outcomes
local node    = ARGV[1]

if redis.call('HEXISTS', owners, node) == 0 then return {'gone'} end
redis.call('HDEL', trouble, node)
return {redis.call('ZREM', sick, node) == 1 and 'released' or 'kept'}

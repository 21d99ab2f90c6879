-- leader_resign: a leader that stops gives up its lease, so that another can take over immediately.
-- Replies: resigned | stale (the caller is not the leader)
local leader   = KEYS[1]   -- string: instance and epoch
local instance = ARGV[1]
local epoch    = ARGV[2]

if redis.call('GET', leader) ~= instance .. ' ' .. epoch then return {'stale'} end
redis.call('DEL', leader)
return {'resigned'}

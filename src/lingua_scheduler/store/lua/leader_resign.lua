-- leader_resign: a leader that stops makes room at once; only for itself.
-- Replies: resigned | stale (somebody else leads by now, or nobody)
local leader   = KEYS[1]   -- string: instance and epoch
local instance = ARGV[1]
local epoch    = ARGV[2]

if redis.call('GET', leader) ~= instance .. ' ' .. epoch then return {'stale'} end
redis.call('DEL', leader)
return {'resigned'}

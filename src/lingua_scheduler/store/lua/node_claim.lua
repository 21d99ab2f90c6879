-- node_claim: a node id belongs to the principal that registers as it, while it is connected and for a time after.
-- A key that is bound to the id takes it from any other principal: an operator decided so.
-- Replies: claimed | took (it belonged to another principal) | foreign (it belongs to another principal)
local claim      = KEYS[1]   -- string, digest of the principal
local belongs_to = ARGV[1]
local bound      = ARGV[2]   -- 1: its key is bound to this id
local keep_ms    = ARGV[3]

local known = redis.call('GET', claim)
local is_foreign = known and known ~= belongs_to
if is_foreign and bound ~= '1' then return {'foreign'} end
redis.call('SET', claim, belongs_to, 'PX', keep_ms)
return {is_foreign and 'took' or 'claimed'}

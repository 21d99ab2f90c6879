-- node_claim: a node id belongs to the principal that registers as it, while it is connected and for a time after.
-- A key that is bound to the id takes it from any other principal of its tenant: an operator of that tenant decided so.
-- Replies: claimed | took (it belonged to another principal) | foreign (it belongs to another principal)
local claim      = KEYS[1]   -- string, digest of the principal and its tenant
local belongs_to = ARGV[1]
local tenant     = ARGV[2]
local bound      = ARGV[3]   -- 1: its key is bound to this id
local keep_ms    = ARGV[4]

local known = redis.call('GET', claim) or ''
-- Claims of before tenants were noted have the digest alone.
local owner, of_tenant = string.match(known, '^(%S+) ?(%S*)$')
local is_foreign = owner and owner ~= belongs_to
local may_take = bound == '1' and (of_tenant == '' or of_tenant == tenant)
if is_foreign and not may_take then return {'foreign'} end
redis.call('SET', claim, belongs_to .. ' ' .. tenant, 'PX', keep_ms)
return {is_foreign and 'took' or 'claimed'}
